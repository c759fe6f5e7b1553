// A module with a __managed__ variable, for works.c.
static const char with_managed[] =
	".version 6.3\n.target sm_70\n.address_size 64\n"
	".global .attribute(.managed) .align 4 .u32 counter = 5;\n.visible .global .align 4 .u32 plain = 3;\n"
	".visible .entry count()\n{\n.reg .b32 %r<2>;\nld.global.u32 %r1, [plain];\nred.global.add.u32 [counter], %r1;\nret;\n}\n";

static void count_up(void) { OK(cudaLaunchKernel((const void *)count_up, (dim3){1, 1, 1}, (dim3){1, 1, 1}, NULL, 0, NULL)); }

// A __managed__ variable as nvcc generates code for it: a pointer, which __cudaInitModule sets.
static inline void managed_variables(void)
{
	static struct fatbin image;
	static struct wrapper wrapper;
	static unsigned *counter, plain;
	cudaPointerAttributes a;
	void *at;
	size_t size;
	fill_fatbin(&image, &wrapper, with_managed);
	void **m = __cudaRegisterFatBinary(&wrapper);
	__cudaRegisterFunction(m, (const char *)count_up, "count", "count", -1, NULL, NULL, NULL, NULL, NULL);
	__cudaRegisterManagedVar(m, (void **)&counter, "counter", "counter", 0, 4, 0, 0);
	__cudaRegisterVar(m, (char *)&plain, "plain", "plain", 0, 4, 0, 0);
	__cudaRegisterFatBinaryEnd(m);
	REQUIRE(counter == NULL && __cudaInitModule(m) == 1 && counter != NULL && *counter == 5);
	*counter = 10;
	count_up();
	OK(cudaDeviceSynchronize());
	REQUIRE(*counter == 13);
	OK(cudaGetSymbolAddress(&at, counter));
	REQUIRE(at == counter);
	OK(cudaGetSymbolSize(&size, counter));
	REQUIRE(size == 4);
	OK(cudaPointerGetAttributes(&a, counter));
	REQUIRE(a.type == 3 && a.devicePointer == counter);
	unsigned two = 2;
	OK(cudaMemcpyToSymbol(counter, &two, 4, 0, HostToDevice));
	OK(cudaMemcpyFromSymbol(&two, &plain, 4, 0, DeviceToHost));
	REQUIRE(*counter == 2 && two == 3);
	GIVES(cudaErrorInvalidValue, cudaFree(counter));
	OK(cudaDeviceReset()); // the next context has another
	count_up();
	OK(cudaDeviceSynchronize());
	REQUIRE(*counter == 8);
	OK(cudaGetSymbolAddress(&at, counter));
	REQUIRE(at == counter);
	__cudaUnregisterFatBinary(m);
	GIVES(cudaErrorInvalidSymbol, cudaGetSymbolAddress(&at, counter));
}
