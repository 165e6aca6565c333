# For a start without RubyGems: loads what Ruby needs to print an uncaught exception as usual, with suggestions.
at_exit do
  if $! && !$!.is_a?(SystemExit) && !$!.is_a?(SignalException)
    %w[rubygems error_highlight did_you_mean].each do |name|
      require name
    rescue LoadError
      nil
    end
  end
end
