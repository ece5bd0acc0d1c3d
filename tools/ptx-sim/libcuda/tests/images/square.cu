// nvcc -fatbin -arch=compute_80 --compress-mode=MODE square.cu -o MODE.fatbin, with CUDA 13.0; and -arch=sm_80 without PTX.
extern "C" __global__ void square(unsigned* values, unsigned n) {
    unsigned i = threadIdx.x;
    if (i < n) values[i] *= values[i];
}
