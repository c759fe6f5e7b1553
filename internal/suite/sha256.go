package suite

import (
	"crypto/sha256"
	"encoding/binary"
)

var sha256Bench = Bench{
	Name: "sha256", Description: "SHA-256 of short messages", Input: "65,536 messages of 52 bytes", Fixed: true,
	Run: runSHA256,
}

func runSHA256(e *Env) error {
	const count, words, length = 1 << 16, 16, 52
	r := newRandom(37)
	in, want, got := make([]uint32, words*count), make([]uint32, 8*count), make([]uint32, 8*count)
	message := make([]byte, 4*words)
	for i := range count {
		for at := 0; at < length; at += 4 {
			binary.BigEndian.PutUint32(message[at:], uint32(r.next()>>32))
		}
		hash := sha256.Sum256(message[:length])
		for w := range 8 {
			want[w*count+i] = binary.BigEndian.Uint32(hash[4*w:])
		}
		for w := range length / 4 { // then a bit, and the length in bits
			in[w*count+i] = binary.BigEndian.Uint32(message[4*w:])
		}
		in[length/4*count+i], in[(words-1)*count+i] = 1<<31, 8*length
	}

	s := e.begin("sha256", 4*len(in), 4*len(got), 4*len(sha256Rounds), 4*len(sha256Start))
	s.htod(s.mem[0], bytesOf(in))
	s.htod(s.mem[2], bytesOf(sha256Rounds))
	s.htod(s.mem[3], bytesOf(sha256Start))
	s.launch("sha256", over(count), inRow, s.mem[0], s.mem[1], s.mem[2], s.mem[3], uint32(count))
	s.sync()
	s.dtoh(bytesOf(got), s.mem[1])
	if err := s.end(); err != nil {
		return err
	}
	return checkEqual("hashes", got, want)
}

// sha256Rounds are the first 32 bits of the fractional parts of the cube roots of the first 64
// primes, and sha256Start those of the square roots of the first 8 (FIPS 180-4, 4.2.2 and 5.3.3).
var (
	sha256Rounds = []uint32{
		0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
		0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
		0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
		0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
		0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
		0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
		0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
		0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
	}
	sha256Start = []uint32{
		0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
	}
)
