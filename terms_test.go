package main

import (
	"os"
	"regexp"
	"testing"
)

// terms are the field's words, and the files in which whoever greps for one has to land: those that do it.
var terms = map[string]string{
	"watch cache":           "view/view.go",
	"equivalence class":     "scheduler/podclass.go",
	"NodeInfo":              "scheduler/state.go",
	"queueing hint":         "scheduler/plugin.go",
	"PreFilter":             "scheduler/plugin.go",
	"ratcheting":            "kinds/apiextensions/ratcheting.go",
	"workqueue":             "loop/queue.go",
	"expectations":          "loop/queue.go",
	"leader election":       "cluster/elect.go",
	"PLEG":                  "node/pleg.go",
	"kubelet":               "node/agent.go",
	"kube-proxy":            "proxy/proxy.go",
	"priority and fairness": "server/fair/fair.go",
	"informers":             "client/remote.go",
	"optimistic":            "server/core.go",
}

// TestTerms: who knows Kubernetes finds its words in comments of the files that do what they mean.
func TestTerms(t *testing.T) {
	for term, path := range terms {
		t.Run(term, func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Error(err)
				return
			}
			said := regexp.MustCompile(`(?i)//.*\b` + regexp.QuoteMeta(term) + `\b`)
			if !said.Match(text) {
				t.Errorf("no comment of %s says %q", path, term)
			}
		})
	}
}
