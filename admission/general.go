package admission

// General returns upstream's plugins, in upstream's order, that a control plane without pods and nodes has a use for. Beside it a program
// need not link those of pods.
func General(cfg Config) Chain {
	cfg = cfg.Complete()
	sign, owners := signers{cfg.Authorize}, ownership{cfg.Authorize, cfg.Kinds}
	return Chain{
		{Name: "CertificateRequester", Mutate: stampRequester},
		{Name: "NamespaceLifecycle", Mutate: namespaceLifecycle},
		{Name: "OwnerReferencesPermissionEnforcement", Off: true, Validate: owners.validate},
		{Name: "CertificateApproval", Validate: sign.approval},
		{Name: "CertificateSigning", Validate: sign.signing},
		{Name: "ClusterTrustBundleAttest", Validate: sign.attest},
		{Name: "CertificateSubjectRestriction", Validate: restrictSubject},
		{Name: quotaPlugin, Validate: newQuotas(cfg).validate},
	}
}
