/* A libcuda.so.1 that knows its version, starts, and has nothing else. */
int cuDriverGetVersion(int *version) {
    *version = VERSION;
    return 0;
}

int cuInit(unsigned flags) { return flags == 0 ? 0 : 1; }
