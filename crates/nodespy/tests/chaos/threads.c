/* So many threads as the first argument says, each with so many KiB of stack as the second: one in eight wakes up
   often, the others rarely. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static size_t kib = 8;

static void *turn(void *argument) {
    volatile char used[kib << 10];
    for (size_t i = 0; i < kib << 10; i += 4096) used[i] = 1;
    useconds_t pause = (uintptr_t)argument % 8 == 0 ? 100000 : 900000;
    for (;;) usleep(pause);
    return NULL;
}

int main(int count, char **arguments) {
    int threads = count > 1 ? atoi(arguments[1]) : 8;
    if (count > 2) kib = (size_t)atoi(arguments[2]);
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (kib + 64) << 10);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, turn, (void *)(uintptr_t)i) != 0) {
            perror("pthread_create");
            return 1;
        }
    }
    puts("ready");
    fflush(stdout);
    volatile unsigned long turns = 0;
    for (int i = 0; i < 60; i++) {
        for (unsigned long j = 0; j < 100000000; j++) turns++;
        usleep(200000);
    }
    return 0;
}
