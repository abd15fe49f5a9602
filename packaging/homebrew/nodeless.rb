class Nodeless < Formula
  desc "Node autoscaling for Amazon EKS with Karpenter's API"
  homepage "@REPOSITORY@"
  version "@VERSION@"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "@URL darwin-arm64@"
      sha256 "@SHA256 darwin-arm64@"
    end
    on_intel do
      url "@URL darwin-amd64@"
      sha256 "@SHA256 darwin-amd64@"
    end
  end

  on_linux do
    on_arm do
      url "@URL linux-arm64@"
      sha256 "@SHA256 linux-arm64@"
    end
    on_intel do
      url "@URL linux-amd64@"
      sha256 "@SHA256 linux-amd64@"
    end
  end

  def install
    bin.install "nodeless"
    man1.install Dir["man/man1/*.1"]
    bash_completion.install "completions/nodeless.bash" => "nodeless"
    fish_completion.install "completions/nodeless.fish"
    zsh_completion.install "completions/_nodeless"
  end

  test do
    assert_equal "nodeless #{version}", shell_output("#{bin}/nodeless --version").strip
    assert_match "nodepools.karpenter.sh", shell_output("#{bin}/nodeless crds")
  end
end
