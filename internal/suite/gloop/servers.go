package gloop

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
)

const (
	echoBytes     = 4 << 10 // of a message
	echoThreads   = 128
	echoRequests  = 20 // of a client, with size 1
	serverClients = 4
)

func prepareEcho(j *job) (task, error) {
	s := &server{job: j, in: echoBytes, out: echoBytes, clients: serverClients, requests: echoRequests * j.Size}
	s.request = func(client, n int) []byte {
		b := make([]byte, echoBytes)
		r := newRandom(uint64(client)<<32 | uint64(n))
		for i := 0; i < len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:], r.bits()>>1) // which does not end the server
		}
		return b
	}
	s.check = func(client, n int, answer []byte) error {
		if !bytes.Equal(answer, s.request(client, n)) {
			return fmt.Errorf("%d bytes came back other than they were sent", len(answer))
		}
		return nil
	}
	if j.Version.loops() {
		return s.looped("echo", echoThreads)
	}
	m, err := j.uploads(echoBytes, echoBytes)
	if err != nil {
		return task{}, err
	}
	s.answer = func(request, answer []byte) error {
		if err := j.write(m[0], request); err != nil {
			return err
		}
		if err := j.step("echo", 1, echoThreads, m[0], m[1], uint32(len(request))); err != nil {
			return err
		}
		return j.read(answer, m[1])
	}
	return s.task(), nil
}

const (
	matmulTile     = 16
	matmulThreads  = matmulTile * matmulTile
	matmulSide     = 64 // a multiple of the tile
	matmulRequests = 4  // of a client, with size 1
)

// product is a request of matmul, with small integers, so that sums are exact.
type product struct{ a, b []float32 }

func makeProduct(client, n int) product {
	r := newRandom(uint64(client)<<32 | uint64(n) | 1<<63)
	numbers := func() []float32 {
		m := make([]float32, matmulSide*matmulSide)
		for i := range m {
			m[i] = float32(r.below(33) - 16)
		}
		return m
	}
	return product{a: numbers(), b: numbers()}
}

// check compares an answer with the product, which it makes of columns of b in integers.
func (p product) check(answer []byte) error {
	var b [matmulSide][matmulSide]int
	for i, x := range p.b {
		b[i%matmulSide][i/matmulSide] = int(x)
	}
	for i := range matmulSide * matmulSide {
		sum := 0
		for k, x := range b[i%matmulSide] {
			sum += int(p.a[i/matmulSide*matmulSide+k]) * x
		}
		if got := math.Float32frombits(binary.LittleEndian.Uint32(answer[4*i:])); got != float32(sum) {
			return fmt.Errorf("element %d of the product is %g instead of %d", i, got, sum)
		}
	}
	return nil
}

func prepareMatmul(j *job) (task, error) {
	const matrix = 4 * matmulSide * matmulSide
	s := &server{job: j, in: 2 * matrix, out: matrix, clients: serverClients, requests: matmulRequests * j.Size}
	s.request = func(client, n int) []byte {
		p := makeProduct(client, n)
		return append(bytesOf(p.a), bytesOf(p.b)...)
	}
	s.check = func(client, n int, answer []byte) error { return makeProduct(client, n).check(answer) }
	if j.Version.loops() {
		return s.looped("matmul", matmulThreads, uint32(matmulSide))
	}
	m, err := j.uploads(2*matrix, matrix)
	if err != nil {
		return task{}, err
	}
	const tiles = matmulSide / matmulTile * (matmulSide / matmulTile)
	s.answer = func(request, answer []byte) error {
		if err := j.write(m[0], request); err != nil {
			return err
		}
		at, blocks := 0, tiles
		if j.Version == Split {
			blocks = 1
		}
		for ; at < tiles; at += blocks {
			if err := j.step("matmul", blocks, matmulThreads, m[0], m[0]+matrix, m[1], uint32(matmulSide), uint32(at)); err != nil {
				return err
			}
		}
		return j.read(answer, m[1])
	}
	return s.task(), nil
}
