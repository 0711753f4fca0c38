package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	syaml "sigs.k8s.io/yaml"
)

// A scenario is a pod, named p, and what happens to it. Each has a namespace of its own.
type scenario struct {
	Name    string           `json:"name"`
	Objects []map[string]any `json:"objects"` // what is there before
	Meta    map[string]any   `json:"meta"`    // metadata of the pod
	Spec    map[string]any   `json:"spec"`    // of the pod, over those of the first document; without it there is none
	Steps   []step           `json:"steps"`
	Slack   bool             `json:"slack"` // how often and in which order things happen is a matter of time: only the end is compared
}

// A step is one thing that is done or waited for; one field is set.
type step struct {
	Until  string            `json:"until"`  // see cluster.until
	Sleep  string            `json:"sleep"`  // a duration
	Create map[string]any    `json:"create"` // an object
	Patch  *patch            `json:"patch"`
	Delete *int64            `json:"delete"` // grace in seconds; below 0: the pod's own
	Exec   []string          `json:"exec"`   // in container In
	Attach []string          `json:"attach"` // lines to send to container In
	Logs   map[string]string `json:"logs"`   // options
	Get    string            `json:"get"`    // a path; {ns} is the namespace
	As     string            `json:"as"`     // text, the default, paths (of JSON), flat (JSON), families (of metrics)
	In     string            `json:"in"`
	Status bool              `json:"status"` // the pod's status now
}

type patch struct {
	Sub  string `json:"sub"`  // subresource
	Type string `json:"type"` // strategic, merge or json
	Body any    `json:"body"`
}

// readScenarios reads a file of documents, the first of which is the spec that all pods begin with.
func readScenarios(file string) (list []scenario, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	var base map[string]any
	names := map[string]bool{}
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return nil, err
		}
		if base == nil {
			if err := syaml.UnmarshalStrict(doc, &base); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			continue
		}
		var s scenario
		if err := syaml.UnmarshalStrict(doc, &s); err != nil {
			return nil, fmt.Errorf("%s, after %d scenarios: %w", file, len(list), err)
		}
		if s.Name == "" {
			continue // a comment alone
		}
		if names[s.Name] {
			return nil, fmt.Errorf("%s has two scenarios %q", file, s.Name)
		}
		names[s.Name] = true
		if s.Spec != nil {
			s.Spec = over(base, s.Spec)
		}
		list = append(list, s)
	}
}

// over puts fields over those of a base. Containers get the first container of the base below them, by field.
func over(base, spec map[string]any) map[string]any {
	all := map[string]any{}
	for k, v := range base {
		all[k] = v
	}
	for k, v := range spec {
		all[k] = v
	}
	common, _ := base["containers"].([]any)
	for _, field := range []string{"containers", "initContainers"} {
		mine, ok := spec[field].([]any)
		if !ok || len(common) == 0 {
			continue
		}
		var made []any
		for _, c := range mine {
			made = append(made, merged(common[0], c))
		}
		all[field] = made
	}
	return all
}

// merged is a container with the fields of another where it has none; null takes a field away.
func merged(base, c any) any {
	all := map[string]any{}
	for _, from := range []any{base, c} {
		m, _ := from.(map[string]any)
		for k, v := range m {
			if v == nil {
				delete(all, k)
				continue
			}
			all[k] = v
		}
	}
	return all
}

// pod is the pod of a scenario.
func (s scenario) pod() *unstructured.Unstructured {
	meta := map[string]any{"name": podName}
	for k, v := range s.Meta {
		meta[k] = v
	}
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": s.Spec}}
}
