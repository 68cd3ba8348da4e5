#include "../emulated-halves.h"
