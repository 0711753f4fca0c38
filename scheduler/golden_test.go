package scheduler

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/internal/golden"
)

// TestDecisions plays testdata/decisions.txt: nodes and pods come, and and the test says where each pod goes, or why it goes nowhere.
//
//	node NAME [| LABELS [| REST OF THE NODE]]
//	place NODE POD [REQUESTS [| LABELS [| SPEC]]]   a pod that runs
//	decide POD [REQUESTS [| LABELS [| SPEC]]]       a pod that is to run; from then on it does
//	start                                           an empty cluster
func TestDecisions(t *testing.T) {
	st := site()
	golden.Run(t, "testdata/decisions.txt", func(line string) string {
		parts := append(strings.Split(line, "|"), "", "")
		for i := range parts {
			parts[i] = strings.TrimSpace(parts[i])
		}
		words := append(strings.Fields(parts[0]), "", "")
		switch words[0] {
		case "start":
			st = site()
		case "node":
			st.setNode(words[1], node(words[1], parts[1], parts[2]))
		case "place":
			st.add(pod(words[2], parts[1], words[3], parts[2]), words[1])
		case "decide":
			p := pod(words[1], parts[1], words[2], parts[2])
			where := st.where(p)
			for _, n := range st.nodes {
				if n.node != nil && n.name == where {
					st.add(p, where)
				}
			}
			return where
		default:
			panic(fmt.Sprintf("no command %q", line))
		}
		return ""
	})
}
