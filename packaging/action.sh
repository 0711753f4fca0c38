#!/usr/bin/env bash
# The step of action.yml: gets a release of kloop, checks its sum, and has the following steps find it, as kloop, as setup-envtest, and
# as the binaries of envtest. Needs curl, tar and sha256sum or shasum, which runners have.
set -euo pipefail
fail() { echo "kloop: $*" >&2; exit 1; }
version=${KLOOP_VERSION#v}
[ -n "$version" ] || fail 'say which version: uses: kloop-dev/kloop@vVERSION, or with: version:'
case $RUNNER_OS in
Linux) os=linux ;;
macOS) os=darwin ;;
Windows) os=windows ;;
*) fail "there is no kloop for $RUNNER_OS" ;;
esac
case $RUNNER_ARCH in
X64) arch=amd64 ;;
ARM64) arch=arm64 ;;
*) fail "there is no kloop for $RUNNER_ARCH" ;;
esac
suffix=
[ "$os" != windows ] || suffix=.exe
url=${KLOOP_URL:-https://github.com/kloop-dev/kloop/releases/download/v$version}
archive=kloop_${version}_${os}_$arch.tar.gz
dir=$RUNNER_TEMP/kloop-$version
mkdir -p "$dir"
cd "$dir"
curl -fsSL --retry 3 -o SHA256SUMS "$url/SHA256SUMS"
curl -fsSL --retry 3 -o "$archive" "$url/$archive"
grep " $archive\$" SHA256SUMS >wanted || fail "$url/SHA256SUMS does not list $archive"
if command -v sha256sum >/dev/null; then sha256sum -c wanted; else shasum -a 256 -c wanted; fi
tar -xzf "$archive"
ln -sf "kloop$suffix" "setup-envtest$suffix"
echo "$dir" >>"$GITHUB_PATH"
assets=$("$dir/kloop$suffix" envtest use --bin-dir "$dir" -p path)
{
	echo "KUBEBUILDER_ASSETS=$assets"
	[ -z "${KLOOP_CONTROLLERS:-}" ] || echo "KLOOP_CONTROLLERS=$KLOOP_CONTROLLERS"
} >>"$GITHUB_ENV"
"$dir/kloop$suffix" version
