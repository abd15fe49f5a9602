/* Every random number is the same, so that hash maps have the same order and collisions in each run. */
#include <string.h>
#include <sys/types.h>

ssize_t getrandom(void *buffer, size_t length, unsigned flags) {
  (void)flags;
  memset(buffer, 7, length);
  return length;
}
