/* Prints what fa512_supports writes for GPU 0, or for GPU ANSWER_GPU. */
#include <stdio.h>
#include <stdlib.h>

#include "fa512.h"

int main(void) {
    const char *gpu = getenv("ANSWER_GPU");
    char text[512];
    fa512_problem problem = {0};
    problem.size = sizeof problem;
    problem.batch = problem.heads = 1;
    problem.sequence = 100;
    problem.head_dim = 64;
    int32_t status = fa512_supports(&problem, gpu ? atoi(gpu) : 0, text, sizeof text);
    printf("%s: %s\n", fa512_error_name(status), status == FA512_OK ? text : fa512_last_error_message());
    return 0;
}
