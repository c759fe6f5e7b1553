//! out image 4096 u16
//! run mandelbrot grid 4,4 block 16,16 args image s32=64 f64=-0.7436 f64=0.1318 f64=0.0001
// Escape times in double precision; lanes leave the loop one by one.
extern "C" __global__ void mandelbrot(unsigned short *image, int n, double cx, double cy, double step) {
  int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  double a = cx + step * (x - n / 2), b = cy + step * (y - n / 2), u = 0, v = 0;
  int i = 0;
  while (i < 300 && u * u + v * v < 4.0) { double w = u * u - v * v + a; v = 2 * u * v + b; u = w; i++; }
  image[y * n + x] = i;
}
