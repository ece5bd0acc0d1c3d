"""Checks fa512 in Python on a machine with two GPUs, in under five minutes:

    torchrun --nproc-per-node 2 two_gpus.py --out FOLDER      # sharded tensors, tensor parallelism
    python two_gpus.py --out FOLDER                           # both GPUs from one process

Prints a line per section; FOLDER/two_gpus_….json has everything. `--dry-run` runs the first on the CPU, over gloo, with PyTorch's
arithmetic in place of the kernels.
"""

import os
import statistics
import threading
import time

import torch
import torch.distributed as dist

import fa512
import fa512.torch
from check import simulate
from common import device, inputs, raises, require, require_close, run_of, synchronize
from encoders import encoder

OPERATOR = torch.ops.fa512.attention.default


def place(run):
    return "cpu" if run.dry else f"cuda:{int(os.environ['LOCAL_RANK'])}"


def mesh_of(run):
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh(device(run.dry), (dist.get_world_size(),))


def sharded(run):
    """Attention sharded by batch and by heads equals that of one GPU, forward and backward, without a collective."""
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.distributed.tensor.debug import CommDebugMode

    mesh, found = mesh_of(run), {}
    for dimension, name in ((0, "batch"), (1, "heads")):
        whole = inputs((4, 4, 200, 64), place(run), requires_grad=True)
        expected = fa512.torch.attention(*whole, causal=True)
        gradients = torch.autograd.grad(expected.float().square().sum(), whole)
        parts = [distribute_tensor(x.detach(), mesh, [Shard(dimension)]).requires_grad_() for x in whole]
        with CommDebugMode() as seen:
            out = fa512.scaled_dot_product_attention(*parts, is_causal=True)
            own = torch.autograd.grad(out, parts, 2 * out.detach())
        require(seen.get_total_counts() == 0, f"{name}: {seen.get_comm_counts()}")
        require(out.placements == (Shard(dimension),), out.placements)
        require(torch.equal(out.full_tensor(), expected), f"{name}: the result is another")
        for gradient, other in zip(own, gradients):
            require_close(gradient.full_tensor(), other, f"{name}: gradient", 2e-2, 2e-2)
        found[name] = {"collectives": seen.get_total_counts()}
    return found


def profiled(run):
    """The profile of a sharded call shows our kernel and no collective."""
    from torch.distributed.tensor import Shard, distribute_tensor
    from torch.profiler import ProfilerActivity, profile

    mesh = mesh_of(run)
    parts = [distribute_tensor(x, mesh, [Shard(1)]) for x in inputs((4, 4, 256, 64), place(run))]
    fa512.scaled_dot_product_attention(*parts)
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        fa512.scaled_dot_product_attention(*parts)
        torch.cuda.synchronize()
    kernels = sorted(event.key for event in seen.key_averages())
    require(any("fa512" in kernel for kernel in kernels), kernels)
    require(not any("nccl" in kernel.lower() for kernel in kernels), kernels)
    return {"kernels": kernels}


def parallel_encoder(attention, sizes, run, mesh):
    """A transformers encoder, its heads and inner columns sharded over the GPUs."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    made = encoder(attention, *sizes, place(run))
    plan = {
        "attention.self.query": ColwiseParallel(),
        "attention.self.key": ColwiseParallel(),
        "attention.self.value": ColwiseParallel(),
        "attention.output.dense": RowwiseParallel(),
        "intermediate.dense": ColwiseParallel(),
        "output.dense": RowwiseParallel(),
    }
    for layer in made.encoder.layer:
        parallelize_module(layer, mesh, plan)
    return made


def milliseconds_in_turns(calls, rounds):
    """Medians over the same number of rounds on every rank: a call has collectives, which all ranks must reach."""
    samples = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            synchronize()
            begun = time.perf_counter()
            call()
            synchronize()
            samples[name].append(1000 * (time.perf_counter() - begun))
    return {name: statistics.median(times) for name, times in samples.items()}


def tensor_parallel(run):
    """An encoder under tensor parallelism, ours and SDPA: outputs against SDPA's on one GPU, and times in ms."""
    found, mesh = {}, mesh_of(run)
    sizes = (256, 4, 2) if run.dry else (768, 12, 12)
    made = {name: parallel_encoder(name, sizes, run, mesh) for name in ("fa512_flash", "sdpa")}
    whole = encoder("sdpa", *sizes, place(run))
    for batch, length in [(2, 96)] + ([] if run.dry else [(8, 512), (64, 512), (64, 128)]):
        torch.manual_seed(1)
        ids = torch.randint(0, 1000, (batch, length)).to(place(run))
        with torch.inference_mode():
            expected = whole(ids).last_hidden_state
            outputs = {name: model(ids).last_hidden_state for name, model in made.items()}
            calls = {name: (lambda model=model: model(ids)) for name, model in made.items()}
            found[f"{batch} x {length}"] = {
                "difference": {
                    name: require_close(out, expected, f"{name}, {batch} x {length}", 6e-2, 3e-2) for name, out in outputs.items()
                },
                "milliseconds": milliseconds_in_turns(calls, 2 if run.dry else 30),
            }
    return found


def alternately(run):
    """One thread alternates between both GPUs: bitwise the result of one GPU."""
    reference = OPERATOR(*inputs((2, 4, 300, 64), "cuda:0"), True, None).cpu()
    copies = [[x.to(f"cuda:{gpu}") for x in inputs((2, 4, 300, 64), "cuda:0")] for gpu in range(2)]
    for _ in range(20):
        for tensors in copies:
            # The current device stays 0: the tensors' device decides.
            out = fa512.attention(*tensors, causal=True)
            again = OPERATOR(*tensors, True, None)
            require(out.device == tensors[0].device, out.device)
            require(torch.equal(out.cpu(), reference) and torch.equal(again.cpu(), reference), str(out.device))
    require(torch.cuda.current_device() == 0, "the current device has changed")


def eight_threads(run):
    """Eight threads, four on each GPU, each on its own stream."""
    reference = OPERATOR(*inputs((2, 4, 300, 64), "cuda:0"), False, None).cpu()
    copies = [[x.to(f"cuda:{gpu}") for x in inputs((2, 4, 300, 64), "cuda:0")] for gpu in range(2)]
    failures = []

    def work(number):
        try:
            with torch.cuda.stream(torch.cuda.Stream(device=number % 2)):
                for _ in range(50):
                    out = fa512.attention(*copies[number % 2])
                require(torch.equal(out.cpu(), reference), f"thread {number}")
        except BaseException as error:
            failures.append(repr(error))

    for gpu in range(2):
        torch.cuda.synchronize(gpu)
    started = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()
    require(not failures, failures)


def graphs_on_each(run):
    """A graph captured on each GPU, replayed with other inputs."""
    for gpu in range(2):
        with torch.cuda.device(gpu):
            q, k, v = inputs((2, 4, 256, 64), f"cuda:{gpu}")
            out = torch.empty_like(q)
            fa512.warm_up(2, 4, 256, device=gpu)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                fa512.attention(q, k, v, out=out)
            q.copy_(inputs(q.shape, f"cuda:{gpu}", 5)[0])
            graph.replay()
            torch.cuda.synchronize()
            require(torch.equal(out, fa512.attention(q, k, v)), f"GPU {gpu}")


def other_gpu_refused(run):
    """A tensor on the other GPU is refused, by name."""
    q, k, v = inputs((1, 2, 64, 64), "cuda:0")
    with raises(ValueError, "k is on GPU 1 and q on GPU 0"):
        fa512.attention(q, k.to("cuda:1"), v)
    with raises(ValueError, "out is on GPU 1"):
        fa512.attention(q, k, v, out=torch.empty_like(q, device="cuda:1"))


def main():
    run = run_of(__doc__, 140)
    if run.dry:
        simulate()
    if "LOCAL_RANK" not in os.environ:
        for section in (alternately, eight_threads, graphs_on_each, other_gpu_refused):
            run.section(section, needs_gpu=True)
        return run.close(run.write("two_gpus_one_process.json"))
    rank = int(os.environ["LOCAL_RANK"])
    if not run.dry:
        torch.cuda.set_device(rank)
    dist.init_process_group("gloo" if run.dry else "nccl")
    run.section(sharded)
    run.section(profiled, needs_gpu=True)
    run.section(tensor_parallel)
    synchronize()
    dist.destroy_process_group()
    return run.close(run.write(f"two_gpus_rank_{rank}.json"))


if __name__ == "__main__":
    raise SystemExit(main())
