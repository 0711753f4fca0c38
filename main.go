// Command kloop is the Kubernetes control loop in one binary: API server, store, controllers, scheduler, node
// agent, service proxy and DNS.
package main

import (
	"os"

	"github.com/kloop-dev/kloop/cli"
)

func main() { os.Exit(cli.Main(os.Args)) }
