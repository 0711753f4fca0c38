class Kloop < Formula
  desc "Kubernetes in one small binary"
  homepage "https://github.com/kloop-dev/kloop"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_intel do
      url "@URL@/kloop_@VERSION@_darwin_amd64.tar.gz"
      sha256 "@SHA256_darwin_amd64@"
    end
    on_arm do
      url "@URL@/kloop_@VERSION@_darwin_arm64.tar.gz"
      sha256 "@SHA256_darwin_arm64@"
    end
  end

  on_linux do
    on_intel do
      url "@URL@/kloop_@VERSION@_linux_amd64.tar.gz"
      sha256 "@SHA256_linux_amd64@"
    end
    on_arm do
      url "@URL@/kloop_@VERSION@_linux_arm64.tar.gz"
      sha256 "@SHA256_linux_arm64@"
    end
  end

  def install
    bin.install "kloop"
    %w[why gaps loops].each { |plugin| bin.install_symlink "kloop" => "kubectl-#{plugin}" }
    man1.install Dir["man/*.1"]
    bash_completion.install "completion/kloop.bash" => "kloop"
    zsh_completion.install "completion/kloop.zsh" => "_kloop"
    fish_completion.install "completion/kloop.fish"
  end

  test do
    assert_match "+kloop.", shell_output("#{bin}/kloop --version")
  end
end
