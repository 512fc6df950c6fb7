"""What comes over the wire from people who mean no good: very many Jobs and reviews, made from a number, so that each can be made again.

``make hostile`` runs the long forms.
"""
