// Bus bandwidth by NCCL alone, to hold the built-in benchmark to: one process, all GPUs, operations back to back on a
// stream per GPU, one wall clock over all of them (the method of nccl-tests, written anew; no code of it).
//
//   nvcc -O2 -o nccl_reference nccl_reference.cu -I NCCL/include -L NCCL/lib -l:libnccl.so.2
//   ./nccl_reference GPUS ITERATIONS SIZE...            one JSON line per operation and size
//
// Sizes mean what they mean there: the bytes of the whole operation (of all_gather the bytes received, of
// reduce_scatter and all_to_all the bytes sent, per rank).
#include <cuda_runtime.h>
#include <nccl.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define CUDA(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \
    std::fprintf(stderr, "%s: %s\n", #call, cudaGetErrorString(e)); std::exit(1); } } while (0)
#define NCCL(call) do { ncclResult_t r = (call); if (r != ncclSuccess) { \
    std::fprintf(stderr, "%s: %s\n", #call, ncclGetErrorString(r)); std::exit(1); } } while (0)

struct Gpus {
    int count;
    std::vector<ncclComm_t> comms;
    std::vector<cudaStream_t> streams;
    std::vector<char *> send, receive;
};

static void enqueue(const Gpus &gpus, const char *what, size_t bytes) {
    const int n = gpus.count;
    const size_t all = bytes / sizeof(float), part = all / n;
    NCCL(ncclGroupStart());
    for (int rank = 0; rank < n; rank++) {
        float *out = (float *)gpus.send[rank], *in = (float *)gpus.receive[rank];
        ncclComm_t comm = gpus.comms[rank];
        cudaStream_t stream = gpus.streams[rank];
        if (!std::strcmp(what, "all_reduce")) NCCL(ncclAllReduce(out, in, all, ncclFloat, ncclSum, comm, stream));
        if (!std::strcmp(what, "all_gather")) NCCL(ncclAllGather(out, in, part, ncclFloat, comm, stream));
        if (!std::strcmp(what, "reduce_scatter"))
            NCCL(ncclReduceScatter(out, in, part, ncclFloat, ncclSum, comm, stream));
        if (!std::strcmp(what, "broadcast")) NCCL(ncclBroadcast(out, in, all, ncclFloat, 0, comm, stream));
        if (!std::strcmp(what, "reduce")) NCCL(ncclReduce(out, in, all, ncclFloat, ncclSum, 0, comm, stream));
        if (!std::strcmp(what, "all_to_all"))
            for (int peer = 0; peer < n; peer++) {
                NCCL(ncclSend(out + peer * part, part, ncclFloat, peer, comm, stream));
                NCCL(ncclRecv(in + peer * part, part, ncclFloat, peer, comm, stream));
            }
        if (!std::strcmp(what, "send_recv")) {
            NCCL(ncclSend(out, all, ncclFloat, (rank + 1) % n, comm, stream));
            NCCL(ncclRecv(in, all, ncclFloat, (rank + n - 1) % n, comm, stream));
        }
    }
    NCCL(ncclGroupEnd());
}

static void wait(const Gpus &gpus) {
    for (int rank = 0; rank < gpus.count; rank++) {
        CUDA(cudaSetDevice(rank));
        CUDA(cudaStreamSynchronize(gpus.streams[rank]));
    }
}

int main(int argc, char **argv) {
    if (argc < 4) {
        std::fprintf(stderr, "usage: nccl_reference GPUS ITERATIONS SIZE...\n");
        return 2;
    }
    Gpus gpus{std::atoi(argv[1]), {}, {}, {}, {}};
    const int iterations = std::atoi(argv[2]), n = gpus.count;
    size_t most = 0;
    for (int i = 3; i < argc; i++) most = std::max(most, (size_t)std::atoll(argv[i]));
    std::vector<int> devices(n);
    gpus.comms.resize(n), gpus.streams.resize(n), gpus.send.resize(n), gpus.receive.resize(n);
    for (int rank = 0; rank < n; rank++) {
        devices[rank] = rank;
        CUDA(cudaSetDevice(rank));
        CUDA(cudaStreamCreateWithFlags(&gpus.streams[rank], cudaStreamNonBlocking));
        CUDA(cudaMalloc((void **)&gpus.send[rank], most));
        CUDA(cudaMalloc((void **)&gpus.receive[rank], most));
        CUDA(cudaMemset(gpus.send[rank], 0, most));
    }
    NCCL(ncclCommInitAll(gpus.comms.data(), n, devices.data()));
    const struct { const char *name; double factor; } operations[] = {
        {"all_reduce", 2.0 * (n - 1) / n}, {"all_gather", 1.0 * (n - 1) / n}, {"reduce_scatter", 1.0 * (n - 1) / n},
        {"all_to_all", 1.0 * (n - 1) / n}, {"broadcast", 1}, {"reduce", 1}, {"send_recv", 1}};
    for (auto &operation : operations)
        for (int i = 3; i < argc; i++) {
            const size_t bytes = (size_t)std::atoll(argv[i]);
            for (int warmup = 0; warmup < 5; warmup++) enqueue(gpus, operation.name, bytes);
            wait(gpus);
            const auto began = std::chrono::steady_clock::now();
            for (int k = 0; k < iterations; k++) enqueue(gpus, operation.name, bytes);
            wait(gpus);
            const double us =
                std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count() / iterations;
            std::printf("{\"operation\": \"%s\", \"size_bytes\": %zu, \"time_us\": %.3f, \"busbw\": %.3f}\n",
                        operation.name, bytes, us, bytes / us / 1e3 * operation.factor);
            std::fflush(stdout);
        }
    return 0;
}
