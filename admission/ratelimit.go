package admission

// What an EventLimit counts separately.
const (
	LimitServer    = "Server"
	LimitNamespace = "Namespace"
	LimitUser      = "User"
	LimitSource    = "SourceAndObject"
)

// An EventLimit bounds how many events are written.
type EventLimit struct {
	Type      string `json:"type"`
	QPS       int32  `json:"qps"`
	Burst     int32  `json:"burst"`
	CacheSize int32  `json:"cacheSize,omitempty"` // buckets that are remembered; 0: 4096
}
