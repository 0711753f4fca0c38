// Command site makes a static site of the repository's pages: README, ARCHITECTURE and all below docs. It can be searched, works without
// a network and from a disk, and a link that leads nowhere is an error.
//
//	go run -C tools/site . [-root ../..] [-out ../../dist/site] [-code URL]
package main

import (
	"flag"
	"fmt"
	"os"
)

func main() {
	root := flag.String("root", "../..", "the repository")
	out := flag.String("out", "../../dist/site", "the directory that is made; what is in it is removed")
	code := flag.String("code", "https://github.com/kloop-dev/kloop/blob/main/", "where files that are no pages can be read")
	flag.Parse()
	n, err := build(os.DirFS(*root), *out, *code)
	if err != nil {
		fmt.Fprintln(os.Stderr, "site:", err)
		os.Exit(1)
	}
	fmt.Printf("%d pages in %s\n", n, *out)
}
