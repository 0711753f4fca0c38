package cli

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/kloop-dev/kloop/server/httpapi"
)

// printVersion tells the version, as a sentence or as the server's /version does.
func printVersion(_ context.Context, std stdio, args []string) error {
	fs := flags(std, "version", "")
	format := fs.String("o", "", "json, as the server's page /version")
	if err := parse(fs, args); err != nil {
		return err
	}
	v := httpapi.DefaultVersion(nil)
	switch *format {
	case "":
		_, err := fmt.Fprintf(std.out, "kloop %s (commit %s, built %s, %s)\n", v.GitVersion, v.GitCommit, v.BuildDate, v.GoVersion)
		return err
	case "json":
		text, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(std.out, "%s\n", text)
		return err
	}
	return fmt.Errorf("-o %s: use json", *format)
}

// kubernetesVersion prints what kube-apiserver --version does.
func kubernetesVersion(std stdio) error {
	_, err := fmt.Fprintf(std.out, "Kubernetes %s\n", httpapi.DefaultVersion(nil).GitVersion)
	return err
}
