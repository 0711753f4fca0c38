// Command kubectl is upstream's kubectl, built from its library. `kloop kubectl` runs it; it is a binary of
// its own because inside kloop it would add 29 MB and 20 ms to every start.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	// Client-side credential plugins, as in upstream's own binary.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
)

func main() {
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err)
		os.Exit(1)
	}
}
