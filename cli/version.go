package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"strings"

	"github.com/kloop-dev/kloop/server/httpapi"
)

// printVersion tells the version, as a sentence or as the server's /version does.
func printVersion(_ context.Context, std stdio, args []string) error {
	fs := flags(std, "version", "")
	form := formOf(fs)
	form.Also("cyclonedx") // the list of what the program is made of: an SBOM
	if err := parse(fs, args); err != nil {
		return err
	}
	v := httpapi.DefaultVersion(nil)
	if form.String() == "cyclonedx" {
		return billOfMaterials(std, v.GitVersion)
	}
	return answer(std, fs, v, func(w io.Writer) error {
		_, err := fmt.Fprintf(w, "kloop %s (commit %s, built %s, %s)\n", v.GitVersion, v.GitCommit, v.BuildDate, v.GoVersion)
		return err
	})
}

// kubernetesVersion prints what kube-apiserver --version does.
func kubernetesVersion(std stdio) error {
	_, err := fmt.Fprintf(std.out, "Kubernetes %s\n", httpapi.DefaultVersion(nil).GitVersion)
	return err
}

// billOfMaterials prints the modules that the program was built from, as the toolchain noted them in it: an SBOM in the format
// CycloneDX 1.5.
func billOfMaterials(std stdio, version string) error {
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return errors.New("the program was built without notes of its modules")
	}
	type component struct {
		Type    string `json:"type"`
		Ref     string `json:"bom-ref,omitempty"`
		Name    string `json:"name"`
		Version string `json:"version"`
		PURL    string `json:"purl,omitempty"`
	}
	list := []component{{"library", "std", "std", strings.TrimPrefix(build.GoVersion, "go"),
		"pkg:golang/std@" + strings.TrimPrefix(build.GoVersion, "go")}}
	for _, m := range build.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Version == "" {
			continue // a directory of this repository
		}
		purl := "pkg:golang/" + m.Path + "@" + m.Version
		list = append(list, component{"library", purl, m.Path, m.Version, purl})
	}
	text, err := json.MarshalIndent(map[string]any{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "components": list,
		"metadata": map[string]any{"component": component{Type: "application", Name: "kloop", Version: version}}}, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(std.out, "%s\n", text)
	return err
}
