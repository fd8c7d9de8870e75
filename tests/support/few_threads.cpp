// Preload this library into a program: from the $NO_THREADS_FROM-th on, it gets no more threads.
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <dlfcn.h>
#include <pthread.h>

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*task)(void*),
                              void* argument) noexcept {
    static std::atomic<int> asked = 0;
    if (++asked >= std::atoi(std::getenv("NO_THREADS_FROM"))) return EAGAIN;
    static const auto create =
        reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
    return create(thread, attributes, task, argument);
}
