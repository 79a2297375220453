"""Programs of public repositories; they need --sources, a folder with the checkouts."""
import pathlib

import numpy

from . import filled, named, numbers, program, tokens
from .scripts import checkout, cora, mnist, pictures, printed, text


def needs(repository):
    """Marks a program as one that needs a checkout."""
    def mark(function):
        function.repository = repository
        return function
    return mark


def script(name, repository, inside, file, *arguments, prepare=lambda root: None, **options):
    """Adds the program that runs a script of a repository and gives the numbers that it prints."""
    def run():
        with checkout(repository, inside) as root:
            prepare(root)
            return {"printed": printed(file, arguments, **options)}
    named(name, run).repository = repository


def _data(root):
    mnist(root / "data", 256, 256)


def example(folder, *arguments, file="main.py", name=None, **options):
    script(f"examples_{name or folder}", "examples", folder, file, *arguments, **options)


example("mnist", "--epochs", 1, "--no-accel", "--log-interval", 1, prepare=_data)
example("mnist_rnn", "--epochs", 1, "--log-interval", 1, prepare=_data)
# One process: those of several write into the parameters in any order.
example("mnist_hogwild", "--epochs", 1, "--num-processes", 1, prepare=_data)
example("mnist_forward_forward", "--epochs", 3, "--no_accel", "--train_size", 64, "--test_size", 32, "--log-interval", 1,
        prepare=lambda root: mnist("data"))
example("vae", "--epochs", 1, "--no-accel", "--log-interval", 1,
        prepare=lambda root: (_data(root), pathlib.Path("results").mkdir(exist_ok=True)))
example("siamese_network", "--epochs", 1, "--no-accel", "--log-interval", 1, "--batch-size", 32, prepare=_data, lines=3)
example("dcgan", "--dataset", "fake", "--dry-run", "--manualSeed", 3, "--batchSize", 4, "--ngf", 8, "--ndf", 8, "--workers", 0)
example("super_resolution", "--upscale_factor", 3, "--batchSize", 2, "--nEpochs", 1, "--lr", "0.001", "--threads", 0,
        prepare=lambda root: [pictures(f"dataset/BSDS300/images/{kind}", 4, 280) for kind in ("train", "test")])
for _kind in ("LSTM", "GRU", "RNN_TANH", "Transformer"):
    example("word_language_model", "--model", _kind, "--epochs", 1, "--emsize", 16, "--nhid", 16, "--log-interval", 4,
            name=f"word_language_model_{_kind.lower()}", drop=r"ms/batch +\S+|time: +\S+",
            prepare=lambda root: [text(f"data/wikitext-2/{kind}.txt") for kind in ("train", "valid", "test")])
example("reinforcement_learning", "--log-interval", 1, file="reinforce.py", name="reinforce", lines=8)
example("reinforcement_learning", "--log-interval", 1, file="actor_critic.py", name="actor_critic", lines=8)
example("imagenet", "--epochs", 1, "--batch-size", 4, "--workers", 0, "--seed", 1, "--print-freq", 1, "--no-accel", "images", "--lr", "0.001",
        prepare=lambda root: [pictures(f"images/{kind}/{label}", 4, 64) for kind in ("train", "val") for label in "ab"],
        drop=r"(Time|Data)\s+\S+\s+\(\s*\S+\)")

_SERVED = """import io, tarfile


class get:
    def __init__(self, url, stream=False):
        self.raw = open("served.tgz", "rb")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.raw.close()
"""


def _served(root):
    """In place of the library requests: gives what the script downloads, from a file."""
    import tarfile
    cora("cora", 2000)
    pathlib.Path("requests.py").write_text(_SERVED)
    with tarfile.open("served.tgz", "w:gz") as archive:
        archive.add("cora")


_SECONDS = r"\(\d+\.\d+s\)"


example("gcn", "--epochs", 4, "--no-accel", "--val-every", 1, prepare=_served, drop=_SECONDS)
example("gat", "--epochs", 2, "--no-accel", "--val-every", 1, "--hidden-dim", 8, "--num-heads", 2, prepare=_served, drop=_SECONDS)


for _file in ("custom_tracer", "inline_function", "invert", "module_tracer", "primitive_library", "proxy_based_graph_creation",
              "replace_op", "subgraph_rewriter_basic_use", "wrap_output_dynamically", "profiling_tracer"):
    named(f"examples_fx_{_file}", lambda file: _finished(file), _file).repository = "examples"


def _finished(file):
    """The numbers of the tensors that a script of the fx examples leaves behind: these scripts check themselves."""
    import contextlib
    import io
    import runpy
    import torch
    with checkout("examples", "fx"):
        torch.manual_seed(0)
        with contextlib.redirect_stdout(io.StringIO()):
            left = runpy.run_path(f"{file}.py", run_name="__main__")
    found = {name: value for name, value in left.items() if isinstance(value, torch.Tensor)}
    return {**found, "modules": sum(isinstance(value, torch.nn.Module) for value in left.values())}


@needs("examples")
@program
def examples_fast_neural_style():
    import sys
    import torch
    with checkout("examples", "fast_neural_style"):
        pictures(".", 1, 40)
        sys.path.insert(0, "neural_style")
        from transformer_net import TransformerNet
        torch.save(filled(TransformerNet()).state_dict(), "style.pth")
        sys.argv = ["neural_style.py", "eval", "--content-image", "image0.png", "--model", "style.pth", "--output-image", "out.png"]
        import runpy
        runpy.run_path("neural_style/neural_style.py", run_name="__main__")
        from PIL import Image
        # One grey level more or less is rounding.
        return {"image": numpy.asarray(Image.open("out.png")).astype("float32").round(-1).mean((0, 1))}


# ---- nanoGPT and its relatives ---------------------------------------------------------------------------------

_TIMES = r"time:? \S+|step time\S*|\d+(\.\d+)?\s?ms|mfu \S+|tok/s|\d+ tok/sec|dt: ?\S+"


@needs("nanoGPT")
@program
def nanogpt_trained_and_sampled():
    with checkout("nanoGPT", ".") as root:
        folder = root / "data" / "shakespeare_char"
        text(folder / "input.txt")
        import contextlib
        import io
        import runpy
        with contextlib.redirect_stdout(io.StringIO()):
            runpy.run_path(str(folder / "prepare.py"), run_name="__main__")
        options = ["config/train_shakespeare_char.py", "--device=cpu", "--compile=False", "--eval_iters=2", "--log_interval=1",
                   "--block_size=32", "--batch_size=4", "--n_layer=2", "--n_head=2", "--n_embd=32", "--max_iters=6",
                   "--eval_interval=3", "--dropout=0.1", "--dtype=float32", "--always_save_checkpoint=True"]
        losses = printed("train.py", options, drop=_TIMES)
        sampled = printed("sample.py", ["--out_dir=out-shakespeare-char", "--device=cpu", "--num_samples=1", "--dtype=float32",
                                        "--max_new_tokens=30"], drop=_TIMES)
        return {"losses": losses, "sampled": sampled}


@needs("minGPT")
@program
def mingpt_sorts():
    import contextlib
    import io
    import torch
    with checkout("minGPT"), contextlib.redirect_stdout(io.StringIO()):
        from mingpt.model import GPT
        from mingpt.trainer import Trainer
        config = GPT.get_default_config()
        config.model_type, config.vocab_size, config.block_size = "gpt-nano", 64, 8
        torch.manual_seed(0)
        model, rows, losses = GPT(config), tokens((40, 9)), []
        data = torch.utils.data.TensorDataset(rows[:, :-1], rows[:, 1:])
        options = Trainer.get_default_config()
        options.max_iters, options.batch_size, options.num_workers, options.device = 8, 8, 0, "cpu"
        trainer = Trainer(options, model, data)
        trainer.set_callback("on_batch_end", lambda trainer: losses.append(trainer.loss.item()))
        trainer.run()
        model.eval()
        return {"losses": numpy.array(losses), "sampled": model.generate(tokens((1, 3)), 5, do_sample=False)}


for _kind in ("transformer", "rnn", "gru", "bow", "mlp", "bigram"):
    script(f"makemore_{_kind}", "makemore", ".", "makemore.py", "--max-steps", 21, "--num-workers", 0, "--type", _kind,
           "--n-layer", 2, "--n-embd", 32, "--n-embd2", 32, drop=_TIMES + r"|step time \S+", prepare=lambda root: pathlib.Path(
               "names.txt").write_text("\n".join(["emma", "olivia", "ava", "isabella", "sophia", "mia", "ann"] * 200)))


@needs("llm.c")
@program
def llmc_train_gpt2():
    with checkout("llm.c"):
        # The tokenizer's vocabulary is downloaded from elsewhere: this run does not look at text.
        pathlib.Path("tiktoken.py").write_text("def get_encoding(name):\n    return None\n")
        header = numpy.zeros(256, dtype="int32")
        header[:3] = 20240520, 1, 2000
        words = numpy.random.default_rng(0).integers(0, 50257, 2000).astype("uint16")
        pathlib.Path("tokens.bin").write_bytes(header.tobytes() + words.tobytes())
        return {"printed": printed("train_gpt2.py", [
            "--input_bin", "tokens.bin", "--model", "d12", "--batch_size", 1, "--sequence_length", 16, "--total_batch_size", 16,
            "--num_iterations", 2, "--write_tensors", 0, "--device", "cpu"], drop=r"\(.*?\)|final .*|peak.*|(?m:^(?!step).*$)")}


@needs("llama2.c")
@program
def llama2c_train():
    with checkout("llama2.c"):
        folder = pathlib.Path("data/tok64")
        folder.mkdir(parents=True)
        for i in range(2):
            numpy.random.default_rng(i).integers(0, 64, 2000).astype("uint16").tofile(folder / f"data{i}.bin")
        # model_export writes a file for run.c; the tokenizer is not needed for training.
        pathlib.Path("sentencepiece.py").write_text("class SentencePieceProcessor:\n    pass\n")
        return {"printed": printed("train.py", [
            "--vocab_source=custom", "--vocab_size=64", "--max_seq_len=16", "--batch_size=4", "--dim=32", "--n_layers=2",
            "--n_heads=4", "--n_kv_heads=2", "--device=cpu", "--dtype=float32", "--compile=False", "--max_iters=4",
            "--eval_interval=4", "--eval_iters=2", "--gradient_accumulation_steps=2", "--warmup_iters=2"], drop=_TIMES + r"|\S+ms")}


@needs("gpt-fast")
@program
def gpt_fast_generate():
    import sys
    import types
    import torch
    with checkout("gpt-fast"):
        # It reads its tokenizers with a library that is not used here.
        sys.modules["tokenizer"] = types.SimpleNamespace(get_tokenizer=None)
        import generate
        from model import ModelArgs, Transformer
        model = filled(Transformer(ModelArgs(block_size=64, vocab_size=64, n_layer=2, n_head=4, n_local_heads=2, dim=32)))
        out, _ = generate.generate(model, tokens((6,)).int(), 8, batch_size=1, interactive=False, draft_model=None, top_k=1)
        return {"generated": out}


@needs("mamba-minimal")
@program
def mamba_minimal():
    with checkout("mamba-minimal"):
        from model import Mamba, ModelArgs
        return {"logits": filled(Mamba(ModelArgs(d_model=16, n_layer=2, vocab_size=64)))(tokens((2, 9)))}


@needs("DiT")
@program
def dit_sampled():
    import torch
    with checkout("DiT"):
        from diffusion import create_diffusion
        from models import DiT
        model = filled(DiT(input_size=8, patch_size=2, in_channels=4, hidden_size=32, depth=2, num_heads=4, num_classes=10))
        torch.manual_seed(0)
        noise, labels = numbers((2, 4, 8, 8)), torch.tensor([1, 10])
        sample = create_diffusion("4").p_sample_loop(model.forward_with_cfg, noise.shape, noise, clip_denoised=False,
                                                     model_kwargs=dict(y=labels, cfg_scale=2.0), device="cpu")
        loss = create_diffusion("").training_losses(model, noise, torch.tensor([3, 700]), dict(y=labels))["loss"].mean()
        loss.backward()
        return {"sample": sample, "loss": loss, "grad": model.x_embedder.proj.weight.grad}


@needs("whisper")
@program
def whisper_decoded():
    import torch
    with checkout("whisper"):
        import whisper
        from whisper.model import ModelDimensions, Whisper
        mel = whisper.log_mel_spectrogram(whisper.pad_or_trim(numbers((16000,)) * 0.1))
        model = filled(Whisper(ModelDimensions(80, 1500, 32, 4, 1, 51864, 64, 32, 4, 1)))
        options = dict(language="en", without_timestamps=True, sample_len=6, fp16=False)
        greedy = whisper.decode(model, mel, whisper.DecodingOptions(**options))
        beams = whisper.decode(model, mel, whisper.DecodingOptions(beam_size=3, **options))
        return {"mel": mel, "greedy": numpy.array(greedy.tokens), "beams": numpy.array(beams.tokens),
                "likelihood": torch.tensor([greedy.avg_logprob, beams.avg_logprob])}
