// What stands in for go-cmp in the binary: see cmp/cmp.go.
module github.com/google/go-cmp

go 1.26
