/* Device memory and fp16 numbers for the test programs. */
#ifndef DEVICE_H
#define DEVICE_H

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "../../examples/driver.h"

static inline void check(int failed, const char *action, const char *message) {
    if (failed) {
        fprintf(stderr, "%s: %s\n", action, message);
        exit(1);
    }
}

static inline CUdeviceptr memory(const void *values, size_t bytes) {
    CUdeviceptr address;
    check(cuMemAlloc_v2(&address, bytes) != 0, "cuMemAlloc", "no memory");
    check(cuMemcpyHtoD_v2(address, values, bytes) != 0, "cuMemcpyHtoD", "not copied");
    return address;
}

static inline void *pointer(CUdeviceptr address) { return (void *)(uintptr_t)address; }

/* `number`, from 0 to 1023, in fp16. */
static inline uint16_t half(int number) {
    int exponent = 0;
    if (number == 0) return 0;
    while (number >> (exponent + 1)) exponent++;
    return (uint16_t)((exponent + 15) << 10 | ((number << 10 >> exponent) & 0x3ff));
}

/* The value of an fp16 that is normal or 0. */
static inline double number(uint16_t bits) { return bits == 0 ? 0 : ldexp(1024 + (bits & 0x3ff), (bits >> 10) - 25); }

#endif
