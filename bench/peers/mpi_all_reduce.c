/* MPI_Allreduce of float sums: the peer of bench/all_reduce.cpp. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a, y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int count, char** words) {
  const long sizes[] = {4, 1 << 10, 64 << 10, 1 << 20, 4 << 20, 25 << 20, 64 << 20};
  float* in = calloc(16 << 20, sizeof(float));
  float* out = calloc(16 << 20, sizeof(float));
  double times[1000];
  int rank;
  MPI_Init(&count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int s = 0; s < 7; ++s) {
    const int calls = sizes[s] < 100000 ? 1000 : sizes[s] < 10000000 ? 60 : 15;
    for (int i = 0; i < calls; ++i) {
      const double start = MPI_Wtime();
      MPI_Allreduce(in, out, (int)(sizes[s] / 4), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      times[i] = MPI_Wtime() - start;
    }
    qsort(times, (size_t)calls, sizeof(double), compare);
    if (rank == 0) printf("all_reduce %ld %.2f\n", sizes[s], times[calls / 2] * 1e6);
  }
  MPI_Finalize();
  free(in);
  free(out);
  return 0;
}
