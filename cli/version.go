package cli

import (
	"context"
	"fmt"

	"github.com/kloop-dev/kloop/server/httpapi"
)

func printVersion(_ context.Context, std stdio, args []string) error {
	if err := parse(flags(std, "version", ""), args); err != nil {
		return err
	}
	v := httpapi.DefaultVersion(nil)
	_, err := fmt.Fprintf(std.out, "kloop %s (commit %s, built %s, %s)\n", v.GitVersion, v.GitCommit, v.BuildDate, v.GoVersion)
	return err
}

// kubernetesVersion prints what kube-apiserver --version does.
func kubernetesVersion(std stdio) error {
	_, err := fmt.Fprintf(std.out, "Kubernetes %s\n", httpapi.DefaultVersion(nil).GitVersion)
	return err
}
