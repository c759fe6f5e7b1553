// Asks for private tables of functions, as NVIDIA's own CUDA runtime does.
#include "driver.h"

int main(void)
{
	static const CUuuid uuid = {{0x6b, 0x15, 0x7b, 0x6c}};
	const void *table = &uuid;
	CHECK(cuInit(0));
	for (int i = 0; i < 2; i++)
		EXPECT(CUDA_ERROR_NOT_FOUND, cuGetExportTable(&table, &uuid));
	REQUIRE(table == NULL);
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuGetExportTable(&table, NULL));
	puts("tables: PASS");
	return 0;
}
