// Command gen makes the two files that are derived from the API types: openapi/schemas.json.gz, the OpenAPI
// schemas, and apply/schema.bin.gz, what field ownership needs to know of them. It runs kube-openapi's
// generator, then the program in dump, which links the result. Run it by `go generate ./openapi`.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
)

// further packages whose types appear in the API beside k8s.io/api.
var further = []string{
	"k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/runtime", "k8s.io/apimachinery/pkg/version",
	"k8s.io/apimachinery/pkg/api/resource", "k8s.io/apimachinery/pkg/util/intstr",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1",
}

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

// generate expects to run in the folder of package openapi.
func generate() error {
	defs := filepath.Join("gen", "defs")
	defer os.RemoveAll(defs)
	if err := os.MkdirAll(defs, 0o755); err != nil {
		return err
	}
	header := filepath.Join(defs, "header.txt")
	if err := os.WriteFile(header, nil, 0o644); err != nil {
		return err
	}
	pkgs, err := packages()
	if err != nil {
		return err
	}
	args := []string{"run", "k8s.io/kube-openapi/cmd/openapi-gen", "--output-dir", defs, "--output-pkg", "defs",
		"--output-file", "defs.go", "--go-header-file", header, "--report-filename", filepath.Join(defs, "report.txt")}
	if err := run(append(args, pkgs...)...); err != nil {
		return fmt.Errorf("generate definitions: %w", err)
	}
	return run("run", "./gen/dump/main.go", "schemas.json.gz", filepath.Join("..", "apply", "schema.bin.gz"))
}

// packages lists all versions of k8s.io/api.
func packages() ([]string, error) {
	out, err := exec.Command("go", "list", "k8s.io/api/...").Output()
	if err != nil {
		return nil, fmt.Errorf("list the API packages: %w", err)
	}
	list := append([]string{}, further...)
	for _, p := range strings.Fields(string(out)) {
		if strings.HasPrefix(filepath.Base(p), "v") && !strings.Contains(p, "testdata") {
			list = append(list, p)
		}
	}
	sort.Strings(list)
	return list, nil
}

func run(args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
