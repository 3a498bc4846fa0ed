// SPDX-License-Identifier: MIT
#include "vm.h"

const struct vm_test vm_access_tests[] = { { 0 } };
