// SPDX-License-Identifier: MIT
#include "vm.h"

const struct vm_test vm_sync_tests[] = { { 0 } };
