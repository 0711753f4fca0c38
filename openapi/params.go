package openapi

// A param describes a parameter: its type and what it does.
type param struct {
	typ string
	doc string
}

// params are all query and path parameters of the API.
var params = map[string]param{
	"name":      {"string", "name of the object"},
	"namespace": {"string", "object name and auth scope, such as for teams and projects"},
	"pretty":    {"string", "If 'true', then the output is pretty printed."},

	"allowWatchBookmarks":  {"boolean", "A watch with bookmarks may send events of type BOOKMARK that tell how far it is."},
	"continue":             {"string", "The token of the page before; the server answers 410 when it is too old."},
	"fieldSelector":        {"string", "Restricts the objects by their fields. Defaults to everything."},
	"labelSelector":        {"string", "Restricts the objects by their labels. Defaults to everything."},
	"limit":                {"integer", "The most objects to return; if there are more, metadata.continue leads to them."},
	"resourceVersion":      {"string", "The version that the answer is at or after; empty is the most recent."},
	"resourceVersionMatch": {"string", "How resourceVersion is meant: Exact or NotOlderThan."},
	"sendInitialEvents":    {"boolean", "A watch with it starts with the objects that exist, then a bookmark says that these are all."},
	"shardSelector":        {"string", "Restricts the objects to a shard."},
	"timeoutSeconds":       {"integer", "Ends a list or watch after that time, whatever happens."},
	"watch":                {"boolean", "Watch for changes and return them as a stream of events. Specify resourceVersion."},

	"dryRun":          {"string", "All: go through all stages but do not persist the change. Any other value is an error."},
	"fieldManager":    {"string", "The name of who makes the change, at most 128 printable characters. Required for apply requests."},
	"fieldValidation": {"string", "What to do about unknown and duplicate fields: Ignore, Warn (the default) or Strict."},
	"force":           {"boolean", "Apply requests with it take over fields that others own. Must be unset for other patches."},

	"gracePeriodSeconds": {"integer", "Seconds before the object is deleted; 0 is at once. Defaults to what the object asks for."},
	"ignoreStoreReadErrorWithClusterBreakingPotential": {"boolean",
		"Delete an object that can't be read from the store, without the usual steps."},
	"orphanDependents":  {"boolean", "Deprecated: use propagationPolicy. Whether dependents are orphaned."},
	"propagationPolicy": {"string", "What happens to dependents: Orphan, Background or Foreground."},

	"command":   {"string", "The command to run, as a list; it is not run in a shell."},
	"container": {"string", "The container. Defaults to the only one."},
	"stderr":    {"boolean", "Redirect the standard error stream."},
	"stdin":     {"boolean", "Redirect the standard input stream."},
	"stdout":    {"boolean", "Redirect the standard output stream."},
	"tty":       {"boolean", "Allocate a terminal."},
	"ports":     {"integer", "The ports to forward."},
	"path":      {"string", "path to the resource"},

	"follow":                       {"boolean", "Follow the log stream."},
	"insecureSkipTLSVerifyBackend": {"boolean", "Do not verify the certificate of the node's agent."},
	"limitBytes":                   {"integer", "The most bytes to return."},
	"previous":                     {"boolean", "Return the log of the container that ran before."},
	"sinceSeconds":                 {"integer", "How far back to begin, in seconds."},
	"stream":                       {"string", "All, Stdout or Stderr."},
	"tailLines":                    {"integer", "How many lines from the end to begin at."},
	"timestamps":                   {"boolean", "Begin every line with its time."},
}

// inPath says whether the parameter is part of the path of the route.
func (r *route) inPath(name string) bool {
	for _, p := range r.params {
		if p == name {
			return true
		}
	}
	return false
}
