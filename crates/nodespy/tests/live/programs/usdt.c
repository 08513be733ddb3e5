// Right answer: the probe shop:order is reached in placeOrder alone, some 500 times a second, and only while it is watched:
// the kernel raises its semaphore. The note is what sys/sdt.h of SystemTap would write.

#include <stdio.h>
#include <unistd.h>

__attribute__((used, section(".probes"))) volatile unsigned short shop_order_semaphore;

__attribute__((noinline)) static void placeOrder(void) {
  __asm__ volatile(
      "990: nop\n"
      ".pushsection .note.stapsdt,\"\",\"note\"\n"
      ".balign 4\n"
      ".4byte 992f-991f, 994f-993f, 3\n"
      "991: .asciz \"stapsdt\"\n"
      "992: .balign 4\n"
      "993: .8byte 990b\n"
      ".8byte _.stapsdt.base\n"
      ".8byte shop_order_semaphore\n"
      ".asciz \"shop\"\n"
      ".asciz \"order\"\n"
      ".asciz \"\"\n"
      "994: .balign 4\n"
      ".popsection\n"
      ".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
      ".weak _.stapsdt.base\n"
      ".hidden _.stapsdt.base\n"
      "_.stapsdt.base: .space 1\n"
      ".size _.stapsdt.base,1\n"
      ".popsection\n" ::: "memory");
}

int main(void) {
  puts("ready");
  fflush(stdout);
  for (int turn = 0; turn < 60000; turn++) {
    if (shop_order_semaphore) placeOrder();
    usleep(2000);
  }
  return 0;
}
