/* What the programs on the event loop share. */
#pragma once
#include "gloop.h"
#include "base.h"

using gloop::Loop;
using gloop::loop::postTask;
using gloop::loop::postTaskIfNecessary;
typedef gloop::i64 i64;
