package podspec

import (
	"fmt"
	"regexp"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/kloop-dev/kloop/kinds/rule"
)

// A handler is the action of a probe or hook.
type handler struct {
	exec  *corev1.ExecAction
	http  *corev1.HTTPGetAction
	tcp   *corev1.TCPSocketAction
	grpc  *corev1.GRPCAction
	sleep *corev1.SleepAction
}

// checkLife checks what containers have that run as long as the pod.
func (c *checker) checkLife(k *corev1.Container, path *field.Path) (errs field.ErrorList) {
	if l := k.Lifecycle; l != nil {
		errs = append(errs, c.checkHook(l.PostStart, path.Child("lifecycle", "postStart"))...)
		errs = append(errs, c.checkHook(l.PreStop, path.Child("lifecycle", "preStop"))...)
		errs = append(errs, c.checkStopSignal(l.StopSignal, path.Child("lifecycle", "stopSignal"))...)
	}
	once := "must be 1"
	if p := k.LivenessProbe; p != nil {
		at := path.Child("livenessProbe")
		errs = append(errs, c.checkProbe(p, at)...)
		if p.SuccessThreshold != 1 {
			errs = append(errs, field.Invalid(at.Child("successThreshold"), p.SuccessThreshold, once))
		}
	}
	if p := k.ReadinessProbe; p != nil {
		at := path.Child("readinessProbe")
		errs = append(errs, c.checkProbe(p, at)...)
		if p.TerminationGracePeriodSeconds != nil {
			errs = append(errs, field.Invalid(at.Child("terminationGracePeriodSeconds"), *p.TerminationGracePeriodSeconds,
				"must not be set for readinessProbes"))
		}
	}
	if p := k.StartupProbe; p != nil {
		at := path.Child("startupProbe")
		errs = append(errs, c.checkProbe(p, at)...)
		if p.SuccessThreshold != 1 {
			errs = append(errs, field.Invalid(at.Child("successThreshold"), p.SuccessThreshold, once))
		}
	}
	return errs
}

func (c *checker) checkHook(h *corev1.LifecycleHandler, path *field.Path) field.ErrorList {
	if h == nil {
		return nil
	}
	return c.checkHandler(handler{exec: h.Exec, http: h.HTTPGet, tcp: h.TCPSocket, sleep: h.Sleep}, path)
}

// signal is large when it is compiled, and seldom asked.
var signal = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`^SIG(ABRT|ALRM|BUS|CHLD|CLD|CONT|FPE|HUP|ILL|INT|IO|IOT|KILL|PIPE|POLL|PROF|PWR|QUIT|SEGV|STKFLT|STOP|SYS|` +
			`TERM|TRAP|TSTP|TTIN|TTOU|URG|USR[12]|VTALRM|WINCH|XCPU|XFSZ|RTMIN(\+([1-9]|1[0-5]))?|RTMAX(-([1-9]|1[0-4]))?)$`)
})

func (c *checker) checkStopSignal(s *corev1.Signal, path *field.Path) field.ErrorList {
	switch {
	case s == nil:
		return nil
	case c.spec.OS == nil:
		return field.ErrorList{field.Forbidden(path, "may not be set for containers with empty `spec.os.name`")}
	case c.spec.OS.Name == corev1.Windows:
		return rule.Among(*s, path, corev1.SIGTERM, corev1.SIGKILL)
	case !signal().MatchString(string(*s)):
		return field.ErrorList{field.NotSupported(path, *s, []corev1.Signal{corev1.SIGTERM, corev1.SIGKILL})}
	}
	return nil
}

func (c *checker) checkProbe(p *corev1.Probe, path *field.Path) field.ErrorList {
	errs := c.checkHandler(handler{exec: p.Exec, http: p.HTTPGet, tcp: p.TCPSocket, grpc: p.GRPC}, path)
	for _, f := range []struct {
		name string
		v    int32
	}{{"initialDelaySeconds", p.InitialDelaySeconds}, {"timeoutSeconds", p.TimeoutSeconds}, {"periodSeconds", p.PeriodSeconds},
		{"successThreshold", p.SuccessThreshold}, {"failureThreshold", p.FailureThreshold}} {
		errs = append(errs, rule.AtLeast(f.v, 0, path.Child(f.name))...)
	}
	if t := p.TerminationGracePeriodSeconds; t != nil && *t <= 0 {
		errs = append(errs, field.Invalid(path.Child("terminationGracePeriodSeconds"), *t, "must be greater than 0"))
	}
	return errs
}

// checkHandler checks that there is exactly one action, and that it is well formed.
func (c *checker) checkHandler(h handler, path *field.Path) (errs field.ErrorList) {
	n := 0
	action := func(name string, set bool, check func(*field.Path) field.ErrorList) {
		if !set {
			return
		}
		if n++; n > 1 {
			errs = append(errs, field.Forbidden(path.Child(name), "may not specify more than 1 handler type"))
			return
		}
		errs = append(errs, check(path.Child(name))...)
	}
	action("exec", h.exec != nil, func(at *field.Path) (errs field.ErrorList) {
		if len(h.exec.Command) == 0 {
			errs = append(errs, field.Required(at.Child("command"), ""))
		}
		return errs
	})
	action("httpGet", h.http != nil, func(at *field.Path) field.ErrorList { return checkHTTP(h.http, at) })
	action("tcpSocket", h.tcp != nil, func(at *field.Path) field.ErrorList { return ValidatePort(h.tcp.Port, at.Child("port")) })
	action("grpc", h.grpc != nil, func(at *field.Path) field.ErrorList {
		return ValidatePort(intstr.FromInt32(h.grpc.Port), at.Child("port"))
	})
	action("sleep", h.sleep != nil, func(at *field.Path) field.ErrorList { return c.checkSleep(h.sleep.Seconds, at) })
	if n == 0 {
		errs = append(errs, field.Required(path, "must specify a handler type"))
	}
	return errs
}

func checkHTTP(g *corev1.HTTPGetAction, path *field.Path) field.ErrorList {
	errs := rule.Needed(g.Path, path.Child("path"))
	errs = append(errs, ValidatePort(g.Port, path.Child("port"))...)
	errs = append(errs, rule.Among(g.Scheme, path.Child("scheme"), corev1.URISchemeHTTP, corev1.URISchemeHTTPS)...)
	for _, h := range g.HTTPHeaders {
		errs = append(errs, rule.Format(h.Name, path.Child("httpHeaders"), utilvalidation.IsHTTPHeaderName)...)
	}
	return errs
}

// checkSleep: a pod can't sleep longer than it has to end.
func (c *checker) checkSleep(seconds int64, path *field.Path) field.ErrorList {
	var grace int64
	if c.spec.TerminationGracePeriodSeconds != nil {
		grace = *c.spec.TerminationGracePeriodSeconds
	}
	if seconds < 0 || seconds > grace {
		return field.ErrorList{field.Invalid(path, seconds,
			fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", grace))}
	}
	return nil
}

// ValidatePort checks a port given by number or by the name of a container's port.
func ValidatePort(p intstr.IntOrString, path *field.Path) field.ErrorList {
	if p.Type == intstr.Int {
		return rule.Says(utilvalidation.IsValidPortNum(p.IntValue()), p.IntValue(), path)
	}
	return rule.Says(utilvalidation.IsValidPortName(p.StrVal), p.StrVal, path)
}
