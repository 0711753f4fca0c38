package converge_test

import (
	"cmp"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/internal/states"
)

// TestOperators holds what is said of the statuses that operators write to testdata/operators.yaml.
func TestOperators(t *testing.T) {
	data, err := os.ReadFile("testdata/operators.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		Of     string          `json:"of"`
		Spec   json.RawMessage `json:"spec"`
		Status json.RawMessage `json:"status"`
		Says   string          `json:"says"`
		State  string          `json:"state"`
		Rests  string          `json:"rests"`
	}
	if err := yaml.UnmarshalStrict(data, &rows); err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		version, kind, _ := strings.Cut(r.Of, " ")
		row := states.Row{Ask: strings.ToLower(kind) + "s." + strings.Split(version, "/")[0] + ":x", Says: r.Says, State: cmp.Or(r.State,
			converge.Waiting), Rests: r.Rests,
			Given: "apiVersion: " + version + "\nkind: " + kind + "\nmetadata: {name: x, generation: 1}\nspec: " + cmp.Or(string(r.Spec),
				"{}") + "\nstatus: " + string(r.Status) + "\n"}
		if r.Says != "" {
			row.Cause = "OperatorReports"
		}
		t.Run(kind+"/"+r.Says, func(t *testing.T) { checkTold(t, &row) })
	}
}
