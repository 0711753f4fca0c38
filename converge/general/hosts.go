package general

import (
	"strconv"
	"strings"

	"github.com/kloop-dev/kloop/converge"
	"github.com/kloop-dev/kloop/converge/mentions"
	"github.com/kloop-dev/kloop/converge/words"
	"github.com/kloop-dev/kloop/internal/pattern"
	"github.com/kloop-dev/kloop/kinds/core"
	"github.com/kloop-dev/kloop/resource"
)

var (
	// noHost finds words by which a name is not known to the DNS.
	noHost = pattern.New(`(?i)no such host|ENOTFOUND|not known|NXDOMAIN|does(?: not|n't) resolve|could not resolve|unknown ?host`)
	// hostPort finds the port that was to be asked there.
	hostPort = pattern.New(`\.svc(?:\.cluster\.local)?:(\d+)`)
)

// unknownHost tells of a service of the cluster that a controller looked up in vain: that it is not there, which may be meant, and where
// its name stands.
func unknownHost(l *converge.Look, f *converge.Finding, tree map[string]any, message string) {
	m := Hosted.FindStringSubmatch(message)
	if m == nil || len(f.Below) > 0 || f.State == converge.Blocked || !noHost.MatchString(message) || !l.Sees(core.Services, m[2]) ||
		resource.Get(l.Read, core.Services, m[2], m[1]) != nil {
		return
	}
	f.Says += "; there is no service " + m[1] + " in namespace " + m[2]
	if resource.Get(l.Read, core.Namespaces, "", m[2]) == nil && l.Sees(core.Namespaces, "") {
		f.Says += ", nor such a namespace"
	}
	f.State = converge.Blocked
	f.Next = converge.PersonDoes("corrects the name, or makes the service; %s goes on then", f.Owner)
	if where := hostIn(tree["spec"], m[0]); where != "" {
		f.Advice = append([]string{"correct " + where + ": kubectl edit " + l.Kind.Info().GR().String() + " " + converge.Called(l)}, f.Advice...)
	} else {
		for _, by := range mentions.Of(l).Mentions(tree) {
			other, custom := words.Tree(by.Obj)
			if where := hostIn(other["spec"], m[0]); custom && where != "" {
				f.Advice = append([]string{"correct " + where + " of " + new(converge.ObjectOf(by.Kind, by.Obj)).Short() + ": kubectl edit " +
					by.Called()}, f.Advice...)
				break
			}
		}
	}
	if near := l.NearTo(converge.On("Object", converge.Ref{Kind: core.Services, NS: m[2], Name: m[1]}, "")); near != "" {
		f.Says += "; " + strings.TrimSuffix(near, ": name it, if that is meant")
	} else if port := hostPort.FindStringSubmatch(message); port != nil {
		for _, s := range resource.List(l.Read, core.Services, m[2]) {
			for _, p := range s.Spec.Ports {
				if strconv.Itoa(int(p.Port)) == port[1] {
					f.Says += "; service/" + s.Name + " there has port " + port[1]
					return
				}
			}
		}
	}
}

// hostIn is the field of a spec that has a host; "": none has.
func hostIn(spec any, host string) string {
	for _, v := range values("spec", spec, 0) {
		if strings.Contains(v.text, host) {
			return v.path
		}
	}
	return ""
}
