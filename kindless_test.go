package main

import (
	"go/ast"
	"go/token"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/kloop-dev/kloop/kinds"
)

// knows are what the front door says of kinds all the same: words that are names of kinds, and packages of types of the API.
var knows = map[string]string{
	"server k8s.io/api/autoscaling/v1":            "Scale, the body of a subresource that kinds of all groups have",
	"server/httpapi k8s.io/api/autoscaling/v1":    "the same",
	"server/httpapi k8s.io/api/authentication/v1": "TokenRequest, the body of a subresource that is code",
	"server/httpapi k8s.io/api/core/v1":           "Binding, the same, and the scheme's own kinds, which upstream registers in v1",
	"server/httpapi namespaces":                   "a part of every path",
	"server/httpapi Binding":                      "the same",
	"server/httpapi events":                       "a group whose types upstream has in another's package",
	"server/httpapi apiregistration.k8s.io":       "has a scheme of its own, as texts of refusals tell",
	"server/httpapi apiextensions.k8s.io":         "the same",
	"server/httpapi ControllerRevision":           "was never in extensions/v1beta1, as texts of refusals tell",
	"server/httpapi StatefulSet":                  "the same",
}

// TestFrontDoorKnowsNoKind: what one kind needs of the packages server and server/httpapi beyond its Def is a Quirk of it, or a
// server.Extension in a package of its own.
func TestFrontDoorKnowsNoKind(t *testing.T) {
	names, used := map[string]bool{}, map[string]bool{}
	for _, k := range kinds.NewSet().All() {
		names[k.Info().Plural], names[k.Info().GVK.Kind] = true, true
		names[k.Info().GVK.Group] = strings.Contains(k.Info().GVK.Group, ".")
	}
	for _, s := range mustSources(t) {
		dir := path.Dir(s.path)
		if s.test() || dir != "server" && dir != "server/httpapi" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			word, err := strconv.Unquote(lit.Value)
			if err == nil && (names[word] || strings.HasPrefix(word, "k8s.io/api/") || strings.HasPrefix(word, module+"/kinds")) {
				if used[dir+" "+word] = true; knows[dir+" "+word] == "" {
					t.Errorf("%s: %q is of one kind: make it a Quirk, or an extension", s.fset.Position(lit.Pos()), word)
				}
			}
			return true
		})
	}
	for key := range knows {
		if !used[key] {
			t.Errorf("the exception %q is not needed any more: delete it", key)
		}
	}
}
