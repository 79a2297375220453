// A library that was compiled for another Tensora.
extern "C" int tensora_framework_abi() { return -1; }
extern "C" void tensora_add_frameworks() {}
