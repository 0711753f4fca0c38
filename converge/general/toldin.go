package general

import (
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

// saidKeyless finds the key that words say an object lacks.
var saidKeyless = pattern.New(`(?i)\bkey ['"\x60]?([\w.-]+)['"\x60]? ` +
	`(?:(?:was|is|could) )?(?:not (?:be )?found|missing|n[o']t exist)`)

// toldIn looks for what a spec names where the controller says that it did: secret "cert-manager/token"; and for the key that it lacks. It
// says that this can't be seen.
func toldIn(l *converge.Look, m *mentions.Mention, message string) (unseen bool) {
	at := strings.Index(message, "/"+m.Name)
	if at < 1 || m.Obj != nil {
		return false
	}
	in := message[strings.LastIndexFunc(message[:at], func(r rune) bool {
		return r != '-' && (r < 'a' || r > 'z') && (r < '0' || r > '9')
	})+1 : at]
	if in == "" || in == m.NS || !m.Kind.Info().Namespaced || l.Sees(core.Namespaces, "") && resource.Get(l.Read, core.Namespaces, "",
		in) == nil {
		return false
	}
	if !l.Sees(m.Kind, in) {
		return true
	}
	m.NS, m.Obj = in, l.Read.Lookup(m.Kind, in, m.Name)
	if k := saidKeyless.FindStringSubmatch(message); k != nil && m.Obj != nil {
		m.Lacks(k[1])
	}
	return false
}
