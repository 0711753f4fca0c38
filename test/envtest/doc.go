// Package envtest holds a suite as operator developers write it, with controller-runtime's envtest. It runs on kloop as it
// would on upstream's binaries: see docs/testing.md.
package envtest
