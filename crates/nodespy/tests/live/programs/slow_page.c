// An addon whose memory lies on a slow store: `touchSlowPage()` reads a page that userfaultfd provides only
// after 300 ms, every time it is called. The thread that reads it is meanwhile blocked in a page fault, in no system
// call. The few functions of Node-API it needs are declared here, so that no headers are needed.
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

typedef void *napi_env, *napi_value, *napi_info;
typedef napi_value (*napi_callback)(napi_env, napi_info);
int napi_create_function(napi_env, const char *, size_t, napi_callback, void *, napi_value *);
int napi_set_named_property(napi_env, napi_value, const char *, napi_value);

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define PAGE 4096

static volatile char *page;
static int faults = -1;

static void *provide(void *unused) {
  struct uffd_msg fault;
  while (read(faults, &fault, sizeof fault) == sizeof fault) {
    usleep(300 * 1000);
    struct uffdio_zeropage zero = {{(unsigned long)page, PAGE}};
    ioctl(faults, UFFDIO_ZEROPAGE, &zero);
  }
  return unused;
}

__attribute__((noinline)) char readSlowPage(void) {
  madvise((void *)page, PAGE, MADV_DONTNEED);
  return page[0];
}

static napi_value touch(napi_env env, napi_info info) {
  (void)env, (void)info;
  readSlowPage();
  return NULL;
}

napi_value napi_register_module_v1(napi_env env, napi_value exports) {
  struct uffdio_api api = {.api = UFFD_API};
  faults = syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
  page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  struct uffdio_register range = {{(unsigned long)page, PAGE}, UFFDIO_REGISTER_MODE_MISSING};
  pthread_t provider;
  if (faults < 0 || ioctl(faults, UFFDIO_API, &api) || ioctl(faults, UFFDIO_REGISTER, &range) ||
      pthread_create(&provider, NULL, provide, NULL))
    return NULL; // a kernel that does not grant it: the export is missing
  napi_value function;
  napi_create_function(env, "touchSlowPage", (size_t)-1, touch, NULL, &function);
  napi_set_named_property(env, exports, "touchSlowPage", function);
  return exports;
}
