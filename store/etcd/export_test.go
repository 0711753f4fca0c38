package etcd

// Upstream is for the black-box tests.
var Upstream = upstream
