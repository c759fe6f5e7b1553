// Package tests holds the tests that need more than one part of PVDRM: programs
// against a backend, virtual machines, hostile guests.
package tests
