// A stand-in for libnvrtc.so and libnvJitLink.so (-DLIBRARY), which keeps the options that it gets, and a
// program that calls it, linked to it and by dlopen. It prints what the library got.
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

typedef int compile(void *program, int n, const char *const *options);

int nvrtcCompileProgram(void *program, int n, const char *const *options);

#ifdef LIBRARY

int nvrtcCompileProgram(void *program, int n, const char *const *options)
{
	char *to = program;
	*to = 0;
	for (int i = 0; i < n && options; i++)
		strcat(strcat(to, " "), options[i] ? options[i] : "NULL");
	return n;
}

int nvJitLinkCreate(void *to, int n, const char *const *options) { return nvrtcCompileProgram(to, n, options); }
int __nvJitLinkCreate_12_0(void *to, int n, const char *const *options) { return nvrtcCompileProgram(to, n, options) + 100; }
int __nvJitLinkCreate_13_0(void *to, int n, const char *const *options) { return nvrtcCompileProgram(to, n, options) + 200; }

#else

static void ask(compile *call, int n, const char *const *options)
{
	char got[4096];
	int r = call(got, n, options);
	printf("%d%s\n", r, got);
}

#define ASK(...)                                                                  \
	do {                                                                      \
		const char *options[] = {__VA_ARGS__};                            \
		ask(call, (int)(sizeof options / sizeof *options), options);      \
	} while (0)

int main(int argc, char **argv)
{
	compile *call = nvrtcCompileProgram;
	for (int i = 0; i < 3; i++) { // linked, opened, and opened again
		ASK("-arch=sm_75");
		ASK("--gpu-architecture", "sm_90a", "-G1");
		ASK("--gpu-architecture=sm_75", "-DX");
		ASK("-arch=sm_75", "-lineinfo");
		ASK("-arch=sm_75", "--device-debug");
		ASK("-arch=compute_75", "-DA=sm_75");
		ASK("-arch=sm_75", NULL);
		ask(call, 0, NULL);
		ask(call, -1, NULL);
		void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
		if (!library || !(call = (compile *)dlsym(library, "nvrtcCompileProgram")))
			return 1;
		if (i == 1)
			dlclose(library);
		if (i == 1 && (!(library = dlopen(argv[1], RTLD_NOW)) || !(call = (compile *)dlsym(library, "nvrtcCompileProgram"))))
			return 1;
	}
	void *linker = argc > 2 ? dlopen(argv[2], RTLD_NOW) : NULL;
	static const char *const names[] = {"nvJitLinkCreate", "__nvJitLinkCreate_12_0", "__nvJitLinkCreate_13_0", "nvrtcCompileProgram"};
	for (int i = 0; i < 4; i++) {
		if (!linker || !(call = (compile *)dlsym(linker, names[i])))
			return 1;
		ASK("-arch=sm_90", "-lto");
		ASK("-arch=sm_90", "-lto", "-ptx");
		ASK("-arch=sm_90", "-g");
	}
	puts("nvrtc: PASS");
	return 0;
}

#endif
