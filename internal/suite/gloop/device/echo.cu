#include "echo.h"

KERNEL echo(const u8 *from, u8 *to, u32 n) { echoCopy(from, to, n); }
