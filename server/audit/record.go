package audit

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/yaml"

	"github.com/kloop-dev/kloop/auth"
	"github.com/kloop-dev/kloop/resource"
	"github.com/kloop-dev/kloop/resource/codec"
)

// maxBody bounds the bodies of an event, in bytes of JSON. What is larger is left out, which an annotation tells.
const maxBody = 4 << 20

// A Record is the audit of one request. A nil record takes everything and does nothing. It is safe for concurrent use.
type Record struct {
	auditor *Auditor
	verdict Verdict

	mu    sync.Mutex
	event auditv1.Event
	began bool // a response has
}

// A Request holds the facts about a request when it comes.
type Request struct {
	ID        string
	URI       string
	SourceIPs []string
	UserAgent string
	Received  time.Time
	What      *auth.Attributes // User is nil when nobody was authenticated
}

// Received fills in the request and records its first stage.
func (r *Record) Received(q Request) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	a := q.What
	r.event = auditv1.Event{TypeMeta: metav1.TypeMeta{Kind: "Event", APIVersion: auditv1.SchemeGroupVersion.String()},
		Level: r.verdict.Level, AuditID: types.UID(q.ID), RequestURI: q.URI, Verb: a.Verb, SourceIPs: q.SourceIPs,
		UserAgent: q.UserAgent, RequestReceivedTimestamp: metav1.NewMicroTime(q.Received)}
	if a.User != nil {
		r.event.User = info(a.User)
	}
	if a.Resource != "" {
		r.event.ObjectRef = &auditv1.ObjectReference{Resource: a.Resource, Namespace: a.Namespace, Name: a.Name,
			APIGroup: a.Group, APIVersion: a.Version, Subresource: a.Subresource}
	}
	r.stage(auditv1.StageRequestReceived, q.Received)
}

func info(u *auth.User) authenticationv1.UserInfo {
	out := authenticationv1.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups}
	for k, v := range u.Extra {
		if out.Extra == nil {
			out.Extra = map[string]authenticationv1.ExtraValue{}
		}
		out.Extra[k] = v
	}
	return out
}

// As notes whom the request is made as, and by which constrained verb ("" for plain impersonation).
func (r *Record) As(u *auth.User, constraint string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	as := info(u)
	r.event.ImpersonatedUser = &as
	if constraint != "" {
		r.event.AuthenticationMetadata = &auditv1.AuthenticationMetadata{ImpersonationConstraint: constraint}
	}
}

// Annotate adds an annotation; the first value of a key stays.
func (r *Record) Annotate(key, value string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.event.Annotations[key]; !ok {
		r.note(key, value)
	}
}

func (r *Record) note(key, value string) {
	// The map is shared with no event that was sent: those are encoded at once.
	if r.event.Annotations == nil {
		r.event.Annotations = map[string]string{}
	}
	r.event.Annotations[key] = value
}

// Object notes what the request is about and, at the levels that want it, its body. The object is not kept.
func (r *Record) Object(obj resource.Object) {
	if r == nil {
		return
	}
	body, large := r.encode(r.wants(auditv1.LevelRequest), obj)
	r.mu.Lock()
	defer r.mu.Unlock()
	if ref := r.event.ObjectRef; ref != nil {
		ref.Namespace = first(ref.Namespace, obj.GetNamespace())
		ref.Name = first(ref.Name, obj.GetName())
		ref.UID = first(ref.UID, obj.GetUID())
		ref.ResourceVersion = first(ref.ResourceVersion, obj.GetResourceVersion())
	}
	r.event.RequestObject = r.unknown(body, large)
}

// Options notes the options of a deletion that came as its body, at the levels that want bodies.
func (r *Record) Options(o *metav1.DeleteOptions) {
	if !r.wants(auditv1.LevelRequest) {
		return
	}
	body, large := r.encode(true, o)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.RequestObject = r.unknown(body, large)
}

func first[T ~string](a, b T) T {
	if a != "" {
		return a
	}
	return b
}

// Patch notes the body of a patch.
func (r *Record) Patch(data []byte) {
	if r == nil || !r.wants(auditv1.LevelRequest) {
		return
	}
	if codec.CheckAliases(data) != nil {
		return // the answer says so
	}
	doc, err := yaml.YAMLToJSON(data) // JSON is YAML
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.RequestObject = r.unknown(doc, len(doc) > maxBody)
}

// WantsAnswer tells whether Answer or Answers are to be called.
func (r *Record) WantsAnswer() bool { return r.wants(auditv1.LevelRequestResponse) }

// Answer notes the object that the request is answered with; of a Status, every level tells something.
func (r *Record) Answer(obj runtime.Object) {
	if st, ok := obj.(*metav1.Status); ok {
		r.Status(st)
	}
	if !r.WantsAnswer() {
		return
	}
	body, large := r.encode(true, obj)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.ResponseObject = r.unknown(body, large)
}

// Answers notes a list: what stands before its items, the items, and what closes it.
func (r *Record) Answers(head []byte, items func(yield func(resource.Object) bool), tail []byte) {
	if !r.WantsAnswer() {
		return
	}
	body, large := bytes.Clone(head), false
	n := 0
	for obj := range items {
		doc, big := r.encode(true, obj)
		if large = big || len(body)+len(doc) > maxBody; large {
			break
		}
		if n++; n > 1 {
			body = append(body, ',')
		}
		body = append(body, doc...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.ResponseObject = r.unknown(append(body, tail...), large)
}

// encode returns the JSON form, without managedFields if the policy says so.
func (r *Record) encode(wanted bool, obj runtime.Object) (doc []byte, large bool) {
	if !wanted {
		return nil, false
	}
	if o, ok := obj.(resource.Object); ok && r.verdict.NoFields && len(o.GetManagedFields()) > 0 {
		o = resource.Clone(o)
		o.SetManagedFields(nil)
		obj = o
	}
	doc, err := codec.MarshalJSON(obj)
	if err != nil {
		return nil, false
	}
	return doc, len(doc) > maxBody
}

func (r *Record) unknown(doc []byte, large bool) *runtime.Unknown {
	if large {
		r.note("audit.k8s.io/truncated", "true")
		return nil
	}
	if doc == nil {
		return nil
	}
	return &runtime.Unknown{Raw: doc, ContentType: runtime.ContentTypeJSON}
}

func (r *Record) wants(level auditv1.Level) bool {
	return r != nil && slices.Index(levels, r.verdict.Level) >= slices.Index(levels, level)
}

// Status notes the status that the request is answered with.
func (r *Record) Status(st *metav1.Status) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.ResponseStatus = &metav1.Status{Status: st.Status, Message: st.Message, Reason: st.Reason, Details: st.Details, Code: st.Code}
}

// Started notes the code of the answer and, for a stream, records that it began.
func (r *Record) Started(code int, stream bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began {
		return
	}
	r.began = true
	r.code(code)
	if stream {
		r.stage(auditv1.StageResponseStarted, time.Now())
	}
}

func (r *Record) code(code int) {
	if r.event.ResponseStatus == nil {
		r.event.ResponseStatus = &metav1.Status{}
	}
	r.event.ResponseStatus.Code = int32(code)
}

// Refused records a request whose sender is not known; nothing follows.
func (r *Record) Refused(code int, why string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = true
	r.event.ResponseStatus = &metav1.Status{Code: int32(code), Message: why}
	r.stage(auditv1.StageResponseStarted, time.Now())
}

// Complete records the last stage.
func (r *Record) Complete(stream bool) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.event.ResponseStatus == nil {
		r.event.ResponseStatus = &metav1.Status{Code: 200, Status: metav1.StatusSuccess, Message: "Connection closed early"}
		if stream {
			r.stage(auditv1.StageResponseStarted, time.Now())
		}
	}
	r.stage(auditv1.StageResponseComplete, time.Now())
}

// Panicked records a request that ended in a panic.
func (r *Record) Panicked(why string) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.event.ResponseStatus = &metav1.Status{Code: 500, Status: metav1.StatusFailure, Reason: metav1.StatusReasonInternalError,
		Message: "APIServer panic'd: " + why}
	r.stage(auditv1.StagePanic, time.Now())
}

// stage sends the event as it is now, unless the policy leaves the stage out. It needs mu.
func (r *Record) stage(s auditv1.Stage, at time.Time) {
	if slices.Contains(r.verdict.Omit, s) {
		return
	}
	e := r.event
	e.Stage, e.StageTimestamp = s, metav1.NewMicroTime(at)
	e.Annotations = maps.Clone(e.Annotations)
	r.auditor.emit(&e)
}
