# Started without RubyGems: an exception that ends the program is shown as Ruby always shows it, with suggestions.
at_exit do
  if $! && !$!.is_a?(SystemExit) && !$!.is_a?(SignalException)
    %w[rubygems error_highlight did_you_mean].each do |name|
      require name
    rescue LoadError
      nil
    end
  end
end
