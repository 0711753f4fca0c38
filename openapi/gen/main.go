// Command gen makes the files that are derived from the API types: openapi/schemas.json.gz, the OpenAPI schemas;
// apply/schema.bin.gz, what field ownership needs to know of them; and openapi/schemas-1.36.json.gz, how the schemas of 1.36
// differ. It runs kube-openapi's generator, then the program in dump, which links the result: once with the types that
// kloop is built with, once with those that v1.36.mod names. Run it by `go generate ./openapi`.
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
	tmp, err := os.MkdirTemp("", "schemas")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	here, err := os.Getwd()
	if err != nil {
		return err
	}
	old := filepath.Join(tmp, "old.json.gz")
	if err := schemas("GOFLAGS=-mod=mod -modfile="+filepath.Join(here, "gen", "v1.36.mod"), old); err != nil {
		return fmt.Errorf("1.36: %w", err)
	}
	if err := schemas("GOFLAGS=", "schemas.json.gz", filepath.Join("..", "apply", "schema.bin.gz")); err != nil {
		return err
	}
	if err := differences("schemas.json.gz", old, "schemas-1.36.json.gz"); err != nil {
		return err
	}
	return run("GOFLAGS=", filepath.Join("..", "scripts", "squeeze"), "schemas.json.gz", filepath.Join("..", "apply", "schema.bin.gz"),
		"schemas-1.36.json.gz")
}

// schemas has the schemas made and written to the files.
func schemas(env string, files ...string) error {
	defs := filepath.Join("gen", "defs")
	defer os.RemoveAll(defs)
	if err := os.MkdirAll(defs, 0o755); err != nil {
		return err
	}
	header := filepath.Join(defs, "header.txt")
	if err := os.WriteFile(header, nil, 0o644); err != nil {
		return err
	}
	pkgs, err := packages(env)
	if err != nil {
		return err
	}
	args := []string{"run", "k8s.io/kube-openapi/cmd/openapi-gen", "--output-dir", defs, "--output-pkg", "defs",
		"--output-file", "defs.go", "--go-header-file", header, "--report-filename", filepath.Join(defs, "report.txt")}
	if err := run(env, "go", append(args, pkgs...)...); err != nil {
		return fmt.Errorf("generate definitions: %w", err)
	}
	return run(env, "go", append([]string{"run", "./gen/dump/main.go"}, files...)...)
}

// packages lists all versions of k8s.io/api.
func packages(env string) ([]string, error) {
	cmd := exec.Command("go", "list", "k8s.io/api/...")
	cmd.Env = append(os.Environ(), env)
	out, err := cmd.Output()
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

func run(env, program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), env)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}
