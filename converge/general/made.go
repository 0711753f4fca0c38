package general

import (
	"encoding/json"
	"strings"
)

// Made is the command that makes an object that kubectl has no command of its own for; "": it can't be pasted.
func Made(apiVersion, kind, ns, name string, spec any) string {
	text, err := json.Marshal(map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]string{"name": name,
		"namespace": ns}, "spec": spec})
	if err != nil || strings.ContainsAny(string(text), "'\\") {
		return ""
	}
	return "echo '" + string(text) + "' | kubectl apply -f -"
}
