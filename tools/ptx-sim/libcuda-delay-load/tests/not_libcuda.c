// A library that has none of the functions of libcuda.
int unrelated(void) {
    return 0;
}
